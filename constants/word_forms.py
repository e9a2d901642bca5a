"""Words whose forms the stemmer cannot bring together: irregular verbs and nouns, everyday short forms, and the words
of deciding, any of which asks for what another tells.

A question says "What did she buy?", the page says "I bought". Porter's rules cut endings only, so a query looks for
all forms of such a word at once; what is stored and indexed stays as it was said.
"""

from collections.abc import Iterator

_FORMS = """
arise arose arisen|awake awoke awoken|beat beaten|become became|begin began begun|bend bent|bind bound|bite bit bitten
bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|burn burnt|buy bought|catch caught
cling clung|come came|creep crept|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone|grind ground|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept
kneel knelt|know knew known|lay laid|lead led|lean leant|leap leapt|learn learnt|leave left|lend lent|light lit
lose lost|make made|mean meant|meet met|mistake mistook mistaken|overcome overcame|pay paid|prove proven
ride rode ridden|ring rang rung|rise rose risen|run ran|say said|see saw seen|seek sought|sell sold|send sent
sew sewn|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank shrunk|sing sang sung|sink sank sunk
sit sat|sleep slept|slide slid|speak spoke spoken|spend spent|spin spun|spring sprang sprung|stand stood
steal stole stolen|stick stuck|sting stung|strike struck|strive strove striven|swear swore sworn|sweep swept
swim swam swum|swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
understand understood|wake woke woken|wear wore worn|weave wove woven|weep wept|win won|wind wound|withdraw withdrew
write wrote written|child children kid|man men|woman women|person people|foot feet|tooth teeth|goose geese|mouse mice
wife wives|life lives|knife knives|leaf leaves|half halves|shelf shelves|wolf wolves|thief thieves|loaf loaves
choose chose chosen choice decide decision agree agreement settle conclude conclusion
photo photograph picture pic|mother mom mum|father dad|television tv|bicycle bike|film movie|doctor doc
"""


def families() -> Iterator[list[str]]:
    """Words that are forms of one another, lower case."""
    for line in _FORMS.split("\n"):
        for family in line.split("|"):
            if family.strip():
                yield family.split()
