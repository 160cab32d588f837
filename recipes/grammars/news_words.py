"""The words from which news.py writes its sentences, and its frames of health advice and of disease reports."""

from __future__ import annotations

__all__ = ["CITIES", "COUNTRIES", "HEALTH", "JOBS", "NAMES", "NATIONS", "NUMBERS", "REGIONS", "ROLES", "TENS", "WORDS"]

NUMBERS = {
    2: ("two", "deux"), 3: ("three", "trois"), 4: ("four", "quatre"), 5: ("five", "cinq"), 6: ("six", "six"),
    7: ("seven", "sept"), 8: ("eight", "huit"), 9: ("nine", "neuf"),
}  # fmt: skip
TENS = [
    ("twenties", "vingtaine"),
    ("thirties", "trentaine"),
    ("forties", "quarantaine"),
    ("fifties", "cinquantaine"),
    ("sixties", "soixantaine"),
]

NAMES = {
    "m": "John Peter David Mark Daniel Thomas Kevin Brian Steven Adam Luke Simon Martin Robert Andrew Samuel Victor Carlos",
    "f": "Sarah Emma Laura Julia Helen Rachel Karen Linda Susan Nicole Hannah Claire Diana Monica Amanda Olivia Elena",
    "family": "Miller Hargrove Hewson Bennett Garnham Whitlock Welland Kessler Falkner Nowicki Larsen Moreau Lemoine Ferretti Ibarra "
    "Bellini Tanaka Delaney Dorrell Fletcher Harding Sutton Brandt Weaver Holt Kowalski Petersen Marsh",
}

CITIES = """London=Londres; Moscow=Moscou; Geneva=Genève; Brussels=Bruxelles; Beijing=Pékin; New Orleans=La Nouvelle-Orléans; Vienna=Vienne
Cairo=Le Caire; Athens=Athènes; Lisbon=Lisbonne; Warsaw=Varsovie; Copenhagen=Copenhague; Rome=Rome; Venice=Venise; Barcelona=Barcelone
Edinburgh=Édimbourg; Philadelphia=Philadelphie; Mexico City=Mexico; Havana=La Havane; Algiers=Alger; Seoul=Séoul; Hamburg=*Hambourg
Cologne=Cologne; Munich=Munich; Frankfurt=Francfort; Antwerp=Anvers; Ghent=Gand; Bern=Berne; Basel=Bâle; Milan=Milan; Florence=Florence
Naples=Naples; Turin=Turin; Seville=Séville; Bucharest=Bucarest; Prague=Prague; Krakow=Cracovie; Kyiv=Kiev; Istanbul=Istanbul; Tehran=Téhéran
Damascus=Damas; Baghdad=Bagdad; Dublin=Dublin; Manchester=Manchester; Liverpool=Liverpool; Glasgow=Glasgow; Chicago=Chicago; Boston=Boston
Los Angeles=Los Angeles; San Francisco=San Francisco; Houston=*Houston; Detroit=Detroit; Atlanta=Atlanta; Seattle=Seattle; Miami=Miami; Denver=Denver
New York=New York; Washington=Washington; Toronto=Toronto; Montreal=Montréal; Quebec City=Québec; Vancouver=Vancouver; Sydney=Sydney; Melbourne=Melbourne
Tokyo=Tokyo; Singapore=Singapour; New Delhi=New Delhi; Mumbai=Bombay; Shanghai=Shanghai; Nairobi=Nairobi; Lagos=Lagos; Cape Town=Le Cap; Berlin=Berlin
Madrid=Madrid; Paris=Paris; Lyon=Lyon; Marseille=Marseille; Amsterdam=Amsterdam; Stockholm=Stockholm; Oslo=Oslo; Helsinki=Helsinki; The Hague=La Haye"""

COUNTRIES = """Germany=l'Allemagne=f; Spain=l'Espagne=f; Italy=l'Italie=f; France=la France=f; Switzerland=la Suisse=f; Belgium=la Belgique=f
the United States=les États-Unis=mp; the Netherlands=les Pays-Bas=mp; the Philippines=les Philippines=fp; Japan=le Japon=m; Canada=le Canada=m
Mexico=le Mexique=m; Brazil=le Brésil=m; Portugal=le Portugal=m; Denmark=le Danemark=m; Egypt=l'Égypte=f; Greece=la Grèce=f; Turkey=la Turquie=f
Poland=la Pologne=f; Russia=la Russie=f; Ukraine=l'Ukraine=f; China=la Chine=f; India=l'Inde=f; Australia=l'Australie=f; Iran=l'Iran=m; Iraq=l'Irak=m
South Africa=l'Afrique du Sud=f; South Korea=la Corée du Sud=f; New Zealand=la Nouvelle-Zélande=f; Norway=la Norvège=f; Sweden=la Suède=f
Ireland=l'Irlande=f; Austria=l'Autriche=f; Hungary=la *Hongrie=f; Romania=la Roumanie=f; Morocco=le Maroc=m; Kenya=le Kenya=m; Chile=le Chili=m
Peru=le Pérou=m; Colombia=la Colombie=f; Argentina=l'Argentine=f; Lebanon=le Liban=m; Pakistan=le Pakistan=m; Indonesia=l'Indonésie=f
Thailand=la Thaïlande=f; Vietnam=le Vietnam=m; Nigeria=le Nigeria=m; Ethiopia=l'Éthiopie=f; Senegal=le Sénégal=m; Tunisia=la Tunisie=f
the United Kingdom=le Royaume-Uni=m; Finland=la Finlande=f; Iceland=l'Islande=f; Croatia=la Croatie=f; Scotland=l'Écosse=f; Wales=le pays de Galles=m"""

REGIONS = [
    ("California", "la Californie", ""), ("Texas", "le Texas", ""), ("Florida", "la Floride", ""), ("Ohio", "l'Ohio", "dans l'Ohio"),
    ("Virginia", "la Virginie", ""), ("Pennsylvania", "la Pennsylvanie", ""), ("Louisiana", "la Louisiane", ""), ("Bavaria", "la Bavière", ""),
    ("Michigan", "le Michigan", "dans le Michigan"), ("Oregon", "l'Oregon", "dans l'Oregon"), ("Illinois", "l'Illinois", "dans l'Illinois"),
    ("North Carolina", "la Caroline du Nord", ""), ("South Carolina", "la Caroline du Sud", ""), ("Sicily", "la Sicile", ""), ("Tuscany", "la Toscane", ""),
    ("Catalonia", "la Catalogne", ""), ("Andalusia", "l'Andalousie", ""), ("Brittany", "la Bretagne", ""), ("Normandy", "la Normandie", ""),
    ("Quebec", "le Québec", ""), ("British Columbia", "la Colombie-Britannique", ""), ("Arizona", "l'Arizona", ""), ("Nevada", "le Nevada", "dans le Nevada"),
    ("Colorado", "le Colorado", "dans le Colorado"), ("Massachusetts", "le Massachusetts", "dans le Massachusetts"), ("Queensland", "le Queensland", "dans le Queensland"),
    ("Wisconsin", "le Wisconsin", "dans le Wisconsin"), ("Alabama", "l'Alabama", "en Alabama"), ("Kentucky", "le Kentucky", "dans le Kentucky"),
    ("Corsica", "la Corse", ""), ("Saxony", "la Saxe", ""), ("Burgundy", "la Bourgogne", ""), ("Crimea", "la Crimée", ""), ("Siberia", "la Sibérie", ""),
]  # fmt: skip

NATIONS = """German=allemand,allemande; French=français,française; Italian=italien,italienne; Spanish=espagnol,espagnole; British=britannique,britannique
Russian=russe,russe; Chinese=chinois,chinoise; Japanese=japonais,japonaise; American=américain,américaine; Canadian=canadien,canadienne
Dutch=néerlandais,néerlandaise; Swiss=suisse,suisse; Belgian=belge,belge; Swedish=suédois,suédoise; Norwegian=norvégien,norvégienne
Danish=danois,danoise; Polish=polonais,polonaise; Turkish=turc,turque; Greek=grec,grecque; Egyptian=égyptien,égyptienne; Indian=indien,indienne
Brazilian=brésilien,brésilienne; Mexican=mexicain,mexicaine; Australian=australien,australienne; Irish=irlandais,irlandaise; Scottish=écossais,écossaise
Ukrainian=ukrainien,ukrainienne; Portuguese=portugais,portugaise; Austrian=autrichien,autrichienne; South Korean=sud-coréen,sud-coréenne
South African=sud-africain,sud-africaine; Finnish=finlandais,finlandaise; Hungarian=hongrois,hongroise; Kenyan=kényan,kényane; Iranian=iranien,iranienne"""

JOBS = """teacher=enseignant/enseignante; nurse=infirmier/infirmière; lawyer=avocat/avocate; soldier=soldat/soldate; driver=chauffeur/conductrice; banker=banquier/banquière; farmer=agriculteur/agricultrice; student=étudiant/étudiante; journalist=journaliste/journaliste; engineer=ingénieur/ingénieure; police officer=policier/policière; athlete=athlète/athlète; actor=acteur/actrice; business owner=chef d'entreprise/cheffe d'entreprise; accountant=comptable/comptable; firefighter=pompier/pompière; doctor=médecin/médecin; architect=architecte/architecte; pilot=pilote/pilote; surgeon=chirurgien/chirurgienne; civil servant=fonctionnaire/fonctionnaire; baker=boulanger/boulangère; electrician=électricien/électricienne; translator=traducteur/traductrice; shopkeeper=commerçant/commerçante; bus driver=chauffeur de bus/conductrice de bus; football player=footballeur/footballeuse; tour guide=guide touristique/guide touristique; social worker=travailleur social/travailleuse sociale; estate agent=agent immobilier/agente immobilière; musician=musicien/musicienne; programmer=programmeur/programmeuse; cleaner=agent d'entretien/agente d'entretien"""

ROLES = """Health Minister {N}=le ministre de la Santé, {N},=la ministre de la Santé, {N},
Interior Minister {N}=le ministre de l'Intérieur, {N},=la ministre de l'Intérieur, {N},
Finance Minister {N}=le ministre des Finances, {N},=la ministre des Finances, {N},
Education Minister {N}=le ministre de l'Éducation, {N},=la ministre de l'Éducation, {N},
Defence Minister {N}=le ministre de la Défense, {N},=la ministre de la Défense, {N},
Prime Minister {N}=le Premier ministre, {N},=la Première ministre, {N},
Foreign Minister {N}=le ministre des Affaires étrangères, {N},=la ministre des Affaires étrangères, {N},
the mayor of {city}, {N},=le maire {de}, {N},=la maire {de}, {N},
police chief {N}=le chef de la police, {N},=la cheffe de la police, {N},
a police spokesman=un porte-parole de la police=une porte-parole de la police
a government spokesman=un porte-parole du gouvernement=une porte-parole du gouvernement
{N}, a spokesman for the ministry,={N}, porte-parole du ministère,={N}, porte-parole du ministère,
{N}, the company's chief executive,={N}, le directeur général de l'entreprise,={N}, la directrice générale de l'entreprise,
{N}, the chairman of the board,={N}, le président du conseil d'administration,={N}, la présidente du conseil d'administration,
{N}, the director of the institute,={N}, le directeur de l'institut,={N}, la directrice de l'institut,
Senator {N}=le sénateur {N}=la sénatrice {N}
Governor {N}=le gouverneur {N}=la gouverneure {N}
President {N}=le président {N}=la présidente {N}
Judge {N}=le juge {N}=la juge {N}
Professor {N}=le professeur {N}=la professeure {N}
Dr {N}=le Dr {N}=la Dre {N}
Mr {S}=M. {S}=Mme {S}
Mr {S}=M. {S}=Mme {S}
head coach {N}=l'entraîneur {N}=l'entraîneuse {N}
team captain {N}=le capitaine de l'équipe, {N},=la capitaine de l'équipe, {N},
{N}, a resident of {city},={N}, un habitant {de},={N}, une habitante {de},
{N}, an economist at the bank,={N}, économiste à la banque,={N}, économiste à la banque,
{N}, an expert in international law,={N}, expert en droit international,={N}, experte en droit international,
opposition leader {N}=le chef de l'opposition, {N},=la cheffe de l'opposition, {N},
the head of the union, {N},=le secrétaire général du syndicat, {N},=la secrétaire générale du syndicat, {N},
a senior official=un haut responsable=une haute responsable
{N}, who heads the research team,={N}, qui dirige l'équipe de recherche,={N}, qui dirige l'équipe de recherche,"""

WORDS = {
    "day": "Monday=lundi; Tuesday=mardi; Wednesday=mercredi; Thursday=jeudi; Friday=vendredi; Saturday=samedi; Sunday=dimanche",
    "month": "January=janvier; February=février; March=mars; April=avril; May=mai; June=juin; July=juillet; August=août; September=septembre; October=octobre; November=novembre; December=décembre",
    "past": """last week=la semaine dernière; last month=le mois dernier; last year=l'année dernière; earlier this week=en début de semaine
yesterday=hier; this week=cette semaine; this morning=ce matin; over the weekend=pendant le week-end; earlier this month=au début du mois
last summer=l'été dernier; at the weekend=ce week-end; earlier this year=plus tôt cette année; last night=hier soir; late last year=à la fin de l'année dernière""",
    "future": """next week=la semaine prochaine; next month=le mois prochain; next year=l'année prochaine; tomorrow=demain; on Monday=lundi
in the coming days=dans les prochains jours; in the coming weeks=dans les semaines à venir; by the end of the year=d'ici la fin de l'année; on Thursday=jeudi
later this week=plus tard dans la semaine; this summer=cet été; by the end of the month=d'ici la fin du mois; later this year=plus tard cette année; next Tuesday=mardi prochain
before the end of the decade=avant la fin de la décennie; this autumn=cet automne; next spring=au printemps prochain; over the next two years=au cours des deux prochaines années""",
    "pair": "men=hommes=mp; women=femmes=fp; teenagers=adolescents=mp; students=étudiants=mp; tourists=touristes=mp; employees=employés=mp; young women=jeunes femmes=fp; young men=jeunes hommes=mp; soldiers=soldats=mp; people=personnes=fp; activists=militants=mp; former officials=anciens responsables=mp",
    "people": "people=personnes=fp; passengers=passagers=mp; children=enfants=mp; residents=habitants=mp; tourists=touristes=mp; civilians=civils=mp; workers=ouvriers=mp; students=étudiants=mp; women and children=femmes et enfants=mp; families=familles=fp; villagers=villageois=mp; migrants=migrants=mp; employees=salariés=mp; pupils=élèves=mp; elderly people=personnes âgées=fp",
    "charge": "murder=meurtre; attempted murder=tentative de meurtre; manslaughter=homicide involontaire; fraud=fraude; tax evasion=évasion fiscale; armed robbery=vol à main armée; burglary=cambriolage; kidnapping=enlèvement; drug trafficking=trafic de drogue; money laundering=blanchiment d'argent; corruption=corruption; arson=incendie volontaire; assault=agression; espionage=espionnage; theft=vol; blackmail=chantage; perjury=faux témoignage; forgery=falsification de documents; smuggling=contrebande; domestic violence=violences conjugales; embezzlement=détournement de fonds; insider trading=délit d'initié",
    "deed": "stealing a car=avoir volé une voiture; setting fire to a barn=avoir mis le feu à une grange; lying to investigators=avoir menti aux enquêteurs; selling stolen goods=avoir vendu des objets volés; threatening a witness=avoir menacé un témoin; attacking a shopkeeper=avoir agressé un commerçant; hacking into a bank's computers=avoir piraté les ordinateurs d'une banque; destroying evidence=avoir détruit des preuves; bribing officials=avoir soudoyé des fonctionnaires; killing a neighbour=avoir tué un voisin; robbing a jewellery shop=avoir braqué une bijouterie; leaking secret documents=avoir divulgué des documents secrets; smuggling weapons=avoir introduit clandestinement des armes; hiding money abroad=avoir caché de l'argent à l'étranger; shooting at a police car=avoir tiré sur une voiture de police; forging passports=avoir falsifié des passeports",
    "org": "the company=l'entreprise=f; the government=le gouvernement=m; the ministry=le ministère=m; the university=l'université=f; the bank=la banque=f; the agency=l'agence=f; the city council=le conseil municipal=m; the union=le syndicat=m; the airline=la compagnie aérienne=f; the party=le parti=m; the organisation=l'organisation=f; the army=l'armée=f; the commission=la commission=f; the club=le club=m; the federation=la fédération=f; the charity=l'association caritative=f; the carmaker=le constructeur automobile=m; the publisher=l'éditeur=m; the hospital=l'hôpital=m; the foundation=la fondation=f; the museum=le musée=m",
    "firm": "the company=l'entreprise=f; the airline=la compagnie aérienne=f; the bank=la banque=f; the carmaker=le constructeur automobile=m; the retailer=le distributeur=m; the software giant=le géant du logiciel=m; the group=le groupe=m; the start-up=la start-up=f; the manufacturer=le fabricant=m; the insurer=l'assureur=m; the oil company=la compagnie pétrolière=f; the drugmaker=le laboratoire pharmaceutique=m; the phone operator=l'opérateur téléphonique=m; the supermarket chain=la chaîne de supermarchés=f; the energy supplier=le fournisseur d'énergie=m; the railway company=la compagnie ferroviaire=f",
    "disaster": "the earthquake=le tremblement de terre=m; the flood=l'inondation=f; the hurricane=l'ouragan=m; the storm=la tempête=f; the landslide=le glissement de terrain=m; the wildfire=l'incendie de forêt=m; the volcanic eruption=l'éruption volcanique=f; the tornado=la tornade=f; the avalanche=l'avalanche=f; the tsunami=le tsunami=m; the heatwave=la canicule=f; the explosion=l'explosion=f; the cyclone=le cyclone=m; the drought=la sécheresse=f",
    "blow": "an earthquake=un tremblement de terre=m; a violent storm=une violente tempête=f; a hurricane=un ouragan=m; a landslide=un glissement de terrain=m; a forest fire=un feu de forêt=m; a tornado=une tornade=f; heavy flooding=de graves inondations=fp; a powerful explosion=une puissante explosion=f; a flash flood=une crue soudaine=f; a snowstorm=une tempête de neige=f; a mudslide=une coulée de boue=f; a gas explosion=une explosion de gaz=f",
    "crash": "a car accident=un accident de voiture=m; a plane crash=un accident d'avion=m; a train derailment=le déraillement d'un train=m; a fire=un incendie=m; a bus crash=un accident d'autocar=m; a shipwreck=un naufrage=m; a helicopter crash=un accident d'hélicoptère=m; a collision between two trains=une collision entre deux trains=f; a bomb attack=un attentat à la bombe=m; a shooting=une fusillade=f; a stampede=une bousculade=f; an avalanche=une avalanche=f; the collapse of a bridge=l'effondrement d'un pont=m",
    "site": "a school=une école=f; a hotel=un hôtel=m; a warehouse=un entrepôt=m; a shopping centre=un centre commercial=m; a factory=une usine=f; a church=une église=f; a nightclub=une boîte de nuit=f; a block of flats=un immeuble=m; a restaurant=un restaurant=m; a railway station=une gare=f; a military base=une base militaire=f; a mosque=une mosquée=f; a stadium=un stade=m; a theatre=un théâtre=m; a farm=une ferme=f; a petrol station=une station-service=f; a museum=un musée=m; a car park=un parking=m",
    "disease": "measles=la rougeole=f; malaria=le paludisme=m; cholera=le choléra=m; the flu=la grippe=f; tuberculosis=la tuberculose=f; diabetes=le diabète=m; asthma=l'asthme=m; pneumonia=la pneumonie=f; hepatitis=l'hépatite=f; dengue fever=la dengue=f; whooping cough=la coqueluche=f; chickenpox=la varicelle=f; polio=la poliomyélite=f; meningitis=la méningite=f; yellow fever=la fièvre jaune=f; typhoid=la typhoïde=f; Ebola=Ebola=m; lung cancer=le cancer du poumon=m; breast cancer=le cancer du sein=m; heart disease=les maladies cardiaques=fp; high blood pressure=l'hypertension=f; mumps=les oreillons=mp; rabies=la rage=f; arthritis=l'arthrite=f; epilepsy=l'épilepsie=f; Alzheimer's disease=la maladie d'Alzheimer=f",
    "infection": "measles=la rougeole=f; malaria=le paludisme=m; cholera=le choléra=m; the flu=la grippe=f; tuberculosis=la tuberculose=f; whooping cough=la coqueluche=f; chickenpox=la varicelle=f; meningitis=la méningite=f; yellow fever=la fièvre jaune=f; the virus=le virus=m; the coronavirus=le coronavirus=m; Covid-19=le Covid-19=m; the disease=la maladie=f; the infection=l'infection=f; dengue fever=la dengue=f",
    "symptom": "a fever=de la fièvre=f; a dry cough=une toux sèche=f; a sore throat=un mal de gorge=m; headaches=des maux de tête=mp; shortness of breath=un essoufflement=m; chest pain=des douleurs thoraciques=fp; a rash=une éruption cutanée=f; nausea=des nausées=fp; vomiting=des vomissements=mp; diarrhoea=de la diarrhée=f; fatigue=de la fatigue=f; muscle pain=des douleurs musculaires=fp; a runny nose=un écoulement nasal=m; chills=des frissons=mp; dizziness=des vertiges=mp; a loss of smell=une perte de l'odorat=f; stomach cramps=des crampes d'estomac=fp; joint pain=des douleurs articulaires=fp; a loss of appetite=une perte d'appétit=f; swelling=un gonflement=m",
    "sport": "football=le football; tennis=le tennis; rugby=le rugby; basketball=le basket; swimming=la natation; cycling=le cyclisme; athletics=l'athlétisme; boxing=la boxe; gymnastics=la gymnastique; handball=le handball; ice hockey=le hockey sur glace; rowing=l'aviron; fencing=l'escrime; figure skating=le patinage artistique",
    "player": "the striker=l'attaquant=m; the goalkeeper=le gardien de but=m; the midfielder=le milieu de terrain=m; the defender=le défenseur=m; the captain=le capitaine=m; the young winger=le jeune ailier=m; the tennis champion=la championne de tennis=f; the swimmer=la nageuse=f; the sprinter=la sprinteuse=f; the cyclist=le cycliste=m; the world number two=la numéro deux mondiale=f; the gymnast=la gymnaste=f; the skier=la skieuse=f; the boxer=le boxeur=m; the substitute=le remplaçant=m",
    "striker": "the striker=l'attaquant=m; the goalkeeper=le gardien de but=m; the midfielder=le milieu de terrain=m; the defender=le défenseur=m; the captain=le capitaine=m; the young winger=le jeune ailier=m; the substitute=le remplaçant=m; the new signing=la nouvelle recrue=f",
    "rank": "second=deuxième; third=troisième; fourth=quatrième; fifth=cinquième; sixth=sixième; seventh=septième; eighth=huitième; ninth=neuvième; tenth=dixième",
    "cup": "the World Cup=la Coupe du monde; the final=la finale; the semi-finals=les demi-finales; the quarter-finals=les quarts de finale; the Olympic Games=les Jeux olympiques; the European Championship=le Championnat d'Europe; the Champions League=la Ligue des champions; the tournament=le tournoi; the world championships=les championnats du monde; the play-offs=les barrages",
    "crisis": "the crisis=la crise=f; the war=la guerre=f; the pandemic=la pandémie=f; the recession=la récession=f; the strike=la grève=f; the scandal=le scandale=m; the conflict=le conflit=m; the shortage=la pénurie=f; the rise in prices=la hausse des prix=f; the budget cuts=les coupes budgétaires=fp; the drought=la sécheresse=f; the sanctions=les sanctions=fp; the bad weather=le mauvais temps=m; climate change=le changement climatique=m; inflation=l'inflation=f",
    "issue": "immigration=l'immigration; the economy=l'économie; health care=la santé; unemployment=le chômage; pensions=les retraites=fp; climate change=le changement climatique; education=l'éducation; security=la sécurité; taxes=les impôts=mp; housing=le logement; corruption=la corruption; the cost of living=le coût de la vie; gun control=le contrôle des armes à feu; energy prices=les prix de l'énergie=mp; abortion=l'avortement; trade=le commerce",
    "artist": "the actress=l'actrice=f; the singer=la chanteuse=f; the film director=le réalisateur=m; the comedian=l'humoriste=m; the pop star=la star de la pop=f; the rapper=le rappeur=m; the novelist=la romancière=f; the television presenter=le présentateur de télévision=m; the model=le mannequin=m; the guitarist=le guitariste=m; the Oscar-winning actor=l'acteur oscarisé=m; the screenwriter=la scénariste=f; the band=le groupe=m; the dancer=la danseuse=f; the painter=le peintre=m; the producer=la productrice=f",
    "film": "the film=le film=m; the series=la série=f; the documentary=le documentaire=m; the novel=le roman=m; the album=l'album=m; the play=la pièce=f; the musical=la comédie musicale=f; the biography=la biographie=f; the thriller=le thriller=m; the exhibition=l'exposition=f; the cartoon=le dessin animé=m; the comedy=la comédie=f",
    "movie": "the film=le film=m; the series=la série=f; the documentary=le documentaire=m; the thriller=le thriller=m; the comedy=la comédie=f; the cartoon=le dessin animé=m; the western=le western=m; the new adaptation of the novel=la nouvelle adaptation du roman=f",
    "product": "a new smartphone=un nouveau smartphone=m; an electric car=une voiture électrique=f; a video game=un jeu vidéo=m; a streaming service=un service de streaming=m; a range of laptops=une gamme d'ordinateurs portables=f; a cheaper model=un modèle moins cher=m; a credit card=une carte de crédit=f; an app for parents=une application destinée aux parents=f; a vegetarian burger=un hamburger végétarien=m; a smart watch=une montre connectée=f; a search engine=un moteur de recherche=m; a delivery drone=un drone de livraison=m",
    "goods": "oil=le pétrole=m; gold=l'or=m; wheat=le blé=m; petrol=l'essence=f; natural gas=le gaz naturel=m; housing=le logement=m; copper=le cuivre=m; coffee=le café=m; bread=le pain=m; electricity=l'électricité=f; steel=l'acier=m; milk=le lait=m; sugar=le sucre=m",
    "probe": "the spacecraft=le vaisseau spatial=m; the probe=la sonde=f; the rocket=la fusée=f; the satellite=le satellite=m; the space telescope=le télescope spatial=m; the rover=le robot=m; the capsule=la capsule=f; the space station=la station spatiale=f",
    "study": "a new study=une nouvelle étude=f; a recent survey=une enquête récente=f; a major report=un important rapport=m; a clinical trial=un essai clinique=m; a large-scale investigation=une vaste enquête=f; a series of experiments=une série d'expériences=f; an analysis of medical records=une analyse de dossiers médicaux=f",
    "habit": "smoking=le tabagisme=m; drinking too much alcohol=la consommation excessive d'alcool=f; a lack of sleep=le manque de sommeil=m; an unhealthy diet=une mauvaise alimentation=f; a lack of exercise=le manque d'exercice=m; air pollution=la pollution de l'air=f; stress=le stress=m; obesity=l'obésité=f; too much salt=l'excès de sel=m; loneliness=la solitude=f; too much sugar=l'excès de sucre=m; passive smoking=le tabagisme passif=m",
    "good": "regular exercise=l'exercice régulier=m; a balanced diet=une alimentation équilibrée=f; a good night's sleep=une bonne nuit de sommeil=f; walking every day=la marche quotidienne=f; eating fruit and vegetables=la consommation de fruits et de légumes=f; vaccination=la vaccination=f; losing weight=la perte de poids=f; drinking enough water=une hydratation suffisante=f; early detection=un dépistage précoce=m; meditation=la méditation=f; physical activity=l'activité physique=f",
    "drug": "the drug=le médicament=m; the vaccine=le vaccin=m; the treatment=le traitement=m; the antibiotic=l'antibiotique=m; the therapy=la thérapie=f; the painkiller=l'antidouleur=m; the booster dose=la dose de rappel=f; the pill=la pilule=f; the blood test=l'analyse de sang=f; the injection=l'injection=f",
    "patient": "pregnant women=les femmes enceintes=fp; older people=les personnes âgées=fp; young children=les jeunes enfants=mp; diabetics=les diabétiques=mp; smokers=les fumeurs=mp; health workers=les soignants=mp; teenagers=les adolescents=mp; newborn babies=les nouveau-nés=mp; people with a weak immune system=les personnes au système immunitaire affaibli=fp; overweight people=les personnes en surpoids=fp; patients with chronic diseases=les patients atteints de maladies chroniques=mp; men over 50=les hommes de plus de 50 ans=mp; breastfeeding mothers=les mères qui allaitent=fp",
    "medic": "your doctor=votre médecin=m; your pharmacist=votre pharmacien=m; a nurse=une infirmière=f; a health professional=un professionnel de santé=m; your midwife=votre sage-femme=f; a specialist=un spécialiste=m; your dentist=votre dentiste=m",
}

HEALTH = {
    "advice": """wash your hands <regularly/thoroughly/before eating/after using the toilet> with soap and water|lavez-vous les mains <régulièrement/soigneusement/avant de manger/après être allé aux toilettes> avec de l'eau et du savon
wash your hands for at least {ten} seconds|lavez-vous les mains pendant au moins {ten} secondes
cover your mouth and nose with a tissue when you cough or sneeze|couvrez-vous la bouche et le nez avec un mouchoir lorsque vous toussez ou éternuez
avoid touching your <eyes/nose/mouth/face> with unwashed hands|évitez de vous toucher <les yeux/le nez/la bouche/le visage> avec des mains non lavées
stay at home if you have {symptom}|restez chez vous si vous avez {symptom}
stay at home and call {medic} if you have {symptom} or {symptom2}|restez chez vous et appelez {medic} si vous avez {symptom} ou {symptom2}
if you have {symptom}, talk to {medic}|si vous avez {symptom}, parlez-en {au.medic}
talk to {medic} before taking this medicine|parlez-en {au.medic} avant de prendre ce médicament
tell {medic} if you are <pregnant/allergic to penicillin/taking other medicines>|prévenez {medic} si vous <êtes enceinte/êtes allergique à la pénicilline/prenez d'autres médicaments>
see {medic} if the <pain/fever/cough/swelling> lasts for more than {n} days|consultez {medic} si <la douleur/la fièvre/la toux/le gonflement> dure plus de {n} jours
call an ambulance immediately if someone has <difficulty breathing/a seizure/severe bleeding/a heart attack>|appelez immédiatement une ambulance si quelqu'un <a du mal à respirer/fait une crise d'épilepsie/saigne abondamment/fait une crise cardiaque>
keep a distance of at least {few} metres from other people|gardez une distance d'au moins {few} mètres avec les autres
wear a mask <in crowded places/on public transport/in hospital/when you visit elderly people>|portez un masque <dans les lieux très fréquentés/dans les transports en commun/à l'hôpital/lorsque vous rendez visite à des personnes âgées>
drink plenty of water and get some rest|buvez beaucoup d'eau et reposez-vous
eat at least {n} portions of fruit and vegetables a day|mangez au moins {n} portions de fruits et légumes par jour
do not smoke near <children/babies/pregnant women>|ne fumez pas à proximité <d'enfants/de bébés/de femmes enceintes>
do not take more than {few} tablets a day|ne prenez pas plus de {few} comprimés par jour
do not stop taking the <antibiotics/tablets/medicine> without asking {medic}|n'arrêtez pas de prendre <les antibiotiques/les comprimés/le médicament> sans demander l'avis {de.medic}
keep all medicines out of the reach of children|gardez tous les médicaments hors de portée des enfants
clean and disinfect <door handles/worktops/telephones/light switches> every day|nettoyez et désinfectez <les poignées de porte/les plans de travail/les téléphones/les interrupteurs> tous les jours
open the windows to let in fresh air|ouvrez les fenêtres pour faire entrer de l'air frais
protect yourself from mosquito bites by <wearing long sleeves/sleeping under a net/using a repellent>|protégez-vous des piqûres de moustiques en <portant des manches longues/dormant sous une moustiquaire/utilisant un répulsif>
boil the water before drinking it|faites bouillir l'eau avant de la boire
cook <meat/eggs/poultry/fish> thoroughly|faites bien cuire <la viande/les œufs/la volaille/le poisson>
make sure that your <vaccinations are/passport is> up to date before travelling to {C}|assurez-vous que <vos vaccins sont/votre passeport est> à jour avant de partir pour {C}
how can I protect myself against {infection}?|comment puis-je me protéger contre {infection} ?
what are the symptoms of {disease}?|quels sont les symptômes {de.disease} ?
how does {infection} spread?|comment se propage {infection} ?
is there a vaccine against {disease}?|existe-t-il un vaccin contre {disease} ?
have you had {symptom} in the last {n} days?|avez-vous eu {symptom} au cours des {n} derniers jours ?
have you been in contact with someone who has {infection}?|avez-vous été en contact avec une personne qui a {infection} ?
have you ever been vaccinated against {infection}?|avez-vous déjà été vacciné contre {infection} ?
do you have <any allergies/pain when you breathe/trouble sleeping/high blood pressure>?|avez-vous <des allergies/mal quand vous respirez/du mal à dormir/de la tension> ?
where does it hurt?|où avez-vous mal ?
when did the <pain/fever/cough/bleeding> start?|quand <la douleur a-t-elle/la fièvre a-t-elle/la toux a-t-elle/les saignements ont-ils> commencé ?
you should be <tested/vaccinated/examined by a specialist> if you have {symptom}|vous devriez <vous faire dépister/vous faire vacciner/être examiné par un spécialiste> si vous avez {symptom}
take {few} tablets a day with <water/food/milk>|prenez {few} comprimés par jour avec <de l'eau/de la nourriture/du lait>
put on clean gloves before treating the <wound/burn/cut>|mettez des gants propres avant de soigner <la plaie/la brûlure/la coupure>
throw used <tissues/gloves/masks/needles> away immediately|jetez immédiatement les <mouchoirs usagés/gants usagés/masques usagés/aiguilles usagées>
do not share <towels/glasses/toothbrushes/needles> with a sick person|ne partagez pas vos <serviettes/verres/brosses à dents/aiguilles> avec une personne malade
avoid <shaking hands/close contact/crowded places/unnecessary travel> as long as {infection} is spreading|évitez <de serrer des mains/les contacts rapprochés/les lieux bondés/les déplacements inutiles> tant que {infection} se propage
get {ten} minutes of exercise every day to reduce your risk of {disease}|faites {ten} minutes d'exercice chaque jour pour réduire votre risque {some.disease}
to stay healthy, eat less <salt/sugar/fat/red meat> and sleep at least <seven/eight> hours a night|pour rester en bonne santé, mangez moins de <sel/sucre/graisses/viande rouge> et dormez au moins <sept/huit> heures par nuit
anyone with {symptom} should isolate for {n} days|toute personne présentant {symptom} doit s'isoler pendant {n} jours
people who have been in contact with a patient must stay in quarantine for {ten} days|les personnes ayant été en contact avec un malade doivent rester en quarantaine pendant {ten} jours
{patient} should avoid contact with anyone who has {infection}|{patient} doivent éviter tout contact avec une personne qui a {infection}
ask {medic} for advice before you <start a diet/travel abroad/take up a sport/give up smoking>|demandez conseil {au.medic} avant de <commencer un régime/partir à l'étranger/vous mettre au sport/arrêter de fumer>
do not give aspirin to children under 16|ne donnez pas d'aspirine aux enfants de moins de 16 ans
if you miss a dose, take it as soon as you remember|si vous oubliez une dose, prenez-la dès que vous vous en rendez compte
rinse the <wound/eye/burn> with cold water for {ten} minutes|rincez <la plaie/l'œil/la brûlure> à l'eau froide pendant {ten} minutes
apply the <cream/ointment/gel> to the skin {few} times a day|appliquez <la crème/la pommade/le gel> sur la peau {few} fois par jour
lie down and breathe slowly if you feel <dizzy/faint/sick>|allongez-vous et respirez lentement si vous <avez des vertiges/vous sentez faible/avez la nausée>
do not drive if the medicine makes you sleepy|ne conduisez pas si le médicament vous rend somnolent
babies should sleep on their backs|les bébés doivent dormir sur le dos
have your <blood pressure/eyes/teeth/cholesterol> checked once a year|faites contrôler <votre tension/vos yeux/vos dents/votre cholestérol> une fois par an
limit your alcohol intake to {n} glasses a week|limitez votre consommation d'alcool à {n} verres par semaine
use sunscreen and stay in the shade during the hottest hours of the day|utilisez de la crème solaire et restez à l'ombre pendant les heures les plus chaudes de la journée
if you have been bitten by a <dog/snake/bat/tick>, go to hospital at once|si vous avez été mordu par <un chien/un serpent/une chauve-souris/une tique>, rendez-vous immédiatement à l'hôpital
you may feel <pain/redness/itching> where the needle went in|vous pouvez ressentir <une douleur/une rougeur/des démangeaisons> à l'endroit de la piqûre
you can go back to work {n} days after the fever has gone|vous pouvez reprendre le travail {n} jours après la disparition de la fièvre
am I at risk of catching {infection}?|est-ce que je risque d'attraper {infection} ?
is this medicine safe for {patient}?|ce médicament est-il sans danger pour {patient} ?
should I wear a mask to protect myself against {infection}?|dois-je porter un masque pour me protéger contre {infection} ?
does your child have {symptom}?|votre enfant a-t-il {symptom} ?
are you taking any medicines for {disease}?|prenez-vous des médicaments contre {disease} ?
I have had {symptom} for {n} days|j'ai {symptom} depuis {n} jours
I have had {symptom} and {symptom2} since {day}|j'ai {symptom} et {symptom2} depuis {day}
my <mother/sister/grandmother> suffers from {disease}|ma <mère/sœur/grand-mère> souffre {ill.disease}
there is no evidence that <garlic/hot water/vitamin C/alcohol> protects against {infection}|rien ne prouve que <l'ail/l'eau chaude/la vitamine C/l'alcool> protège contre {infection}""",
    "health": """the symptoms of {disease} include {symptom}, {symptom2} and {symptom3}|parmi les symptômes {de.disease} figurent {symptom}, {symptom2} et {symptom3}
most patients have {symptom} and {symptom2}|la plupart des patients ont {symptom} et {symptom2}
some patients also have {symptom} or {symptom2}|certains patients ont également {symptom} ou {symptom2}
symptoms usually appear <two to 10/three to 12/five to 14> days after infection|les symptômes apparaissent généralement <deux à 10/trois à 12/cinq à 14> jours après l'infection
{patient} are more likely to develop {disease}|{patient} risquent davantage de souffrir {ill.disease}
{patient} are at higher risk of severe illness|{patient} courent un risque plus élevé de forme grave de la maladie
{patient} should be vaccinated against {infection}|{patient} devraient se faire vacciner contre {infection}
{num} cases of {infection} have been reported in {C} since {month}|{num} cas {some.infection} ont été signalés {in.C} depuis {month}
{num} people have died of {infection} in {C}|{num} personnes sont mortes {de.infection} {in.C}
{num} new cases of {infection} were confirmed{l}{t}|{num} nouveaux cas {some.infection} ont été confirmés{l}{t}
an outbreak of {infection} has been reported{l}|une flambée {some.infection} a été signalée{l}
{infection} is spreading rapidly{l}|{infection} se propage rapidement{l}
{infection} is transmitted <by mosquitoes/through contaminated water/through the air/by close contact/when an infected person coughs>|{infection} se transmet <par les moustiques/par l'eau contaminée/par voie aérienne/par contact rapproché/lorsqu'une personne infectée tousse>
{infection} can survive on surfaces for several <hours/days>|{infection} peut survivre sur les surfaces pendant plusieurs <heures/jours>
{C} has banned travellers from {C2} in order to slow the spread of {infection}|{C} {a} interdit l'entrée aux voyageurs venant {of.C2} afin de ralentir la propagation {de.infection}
the first case of {infection} was detected in {city}{t}|le premier cas {some.infection} a été détecté {au.city}{t}
schools will remain closed {F} because of {infection}|les écoles resteront fermées {F} à cause {de.infection}
the country has gone into lockdown to slow the spread of {infection}|le pays s'est confiné pour ralentir la propagation {de.infection}
{habit} increases the risk of {disease}|{habit} augmente le risque {some.disease}
{habit} is one of the main causes of {disease}|{habit} est l'une des principales causes {de.disease}
{study} has found a link between {habit} and {disease}|{study} a établi un lien entre {habit} et {disease}
{study} shows that {habit} increases the risk of {disease} by {pct}|{study} montre que {habit} augmente le risque {some.disease} de {pct}
{study} suggests that {good} reduces the risk of {disease}|{study} laisse penser que {good} réduit le risque {some.disease}
{good} can help prevent {disease}|{good} peut contribuer à prévenir {disease}
{good} is good for the <heart/brain/bones/immune system>|{good} est bénéfique pour <le cœur/le cerveau/les os/le système immunitaire>
{drug} is <safe/effective> for {patient}|{drug} est <sans danger/efficace> pour {patient}
{drug} has been tested on {num} volunteers in {C}|{drug} a été testé{e} sur {num} volontaires {in.C}
{drug} was {pct} effective against {disease}|{drug} était efficace à {pct} contre {disease}
{drug} could cause side effects such as {symptom} and {symptom2}|{drug} pourrait provoquer des effets secondaires tels que {symptom} et {symptom2}
{drug} should not be given to {patient}|{drug} ne doit pas être administré{e} {au.patient}
{drug} was approved by the {nat} authorities{t}|{drug} a été autorisé{e} par les autorités {fp.nat}{t}
{drug} will be available {F}|{drug} sera disponible {F}
there is currently no <cure/vaccine/treatment> for {disease}|il n'existe actuellement aucun <remède/vaccin/traitement> contre {disease}
{pct} of adults in {C} suffer from {disease}|{pct} des adultes souffrent {ill.disease} {in.C}
{pct} of the population has received at least one dose of the vaccine|{pct} de la population a reçu au moins une dose de vaccin
{pct} of patients recover without treatment|{pct} des patients guérissent sans traitement
{P} {was} admitted to hospital with {symptom}{t}|{P} {a} été hospitalisé{e} avec {symptom}{t}
{P} {was} diagnosed with {disease}{t}|{P} {a} appris qu'{il} souffr{ait} {ill.disease}{t}
{P} {is} in intensive care{l}|{P} {est} en soins intensifs{l}
{P} {was} taken to hospital by <ambulance/helicopter> and {is} in a <critical/stable> condition|{P} {a} été transporté{e} à l'hôpital en <ambulance/hélicoptère> et {est} dans un état <critique/stable>
{P} died of {infection}{l}{t}|{P} {est} mort{e} {de.infection}{l}{t}
{P} underwent <heart surgery/a kidney transplant/a brain scan/an operation> in {city}{t}|{P} {a} subi <une opération du cœur/une greffe de rein/un scanner cérébral/une opération> {au.city}{t}
{P} {has} fully recovered from {infection}|{P} {est} complètement guéri{e} {de.infection}
surgeons at a hospital in {city} have carried out the first <hand/face/liver> transplant|les chirurgiens d'un hôpital {de.city} ont réalisé la première greffe <de la main/du visage/du foie>
hospitals in {C} are short of <nurses/beds/masks/ventilators/blood>|les hôpitaux manquent <d'infirmières/de lits/de masques/de respirateurs/de sang> {in.C}
doctors recommend {good} to {patient}|les médecins recommandent {good} {au.patient}
more than {num} children are vaccinated against {infection} every year in {C}|plus de {num} enfants sont vaccinés chaque année contre {infection} {in.C}
the epidemic has <slowed down/reached its peak/spread to neighbouring countries>|l'épidémie <a ralenti/a atteint son pic/s'est étendue aux pays voisins>
the number of deaths linked to {habit} has <risen/fallen> by {pct} since {year}|le nombre de décès liés {au.habit} a <augmenté/diminué> de {pct} depuis {year}
life expectancy in {C} has <risen/fallen> to {life} years|l'espérance de vie {in.C} est <passée/tombée> à {life} ans
the test results are available within {ten} hours|les résultats du test sont disponibles dans un délai de {ten} heures
most people who catch {infection} have only mild symptoms|la plupart des personnes qui attrapent {infection} n'ont que des symptômes légers
a person infected with {infection} can pass it on to others without having any symptoms|une personne infectée par {infection} peut contaminer d'autres personnes sans présenter de symptômes
an infected person can be contagious for {n} days|une personne infectée peut être contagieuse pendant {n} jours
about one in {ten} patients develops complications such as <pneumonia/hepatitis/meningitis>|environ un patient sur {ten} développe des complications telles que <la pneumonie/l'hépatite/la méningite>
{disease} affects {num} people in {C} every year|{disease} touche{nt} chaque année {num} personnes {in.C}
{disease} can be fatal if left untreated|sans traitement, {disease} {peut} entraîner la mort
the blood tests showed that the patient had {disease}|les analyses de sang ont montré que le patient souffrait {ill.disease}
scientists are working on a vaccine against {disease} that could be ready {F}|des scientifiques travaillent sur un vaccin contre {disease} qui pourrait être prêt {F}
health officials have declared {infection} a public health emergency|les autorités sanitaires ont déclaré que {infection} constituait une urgence de santé publique
health workers are <testing/vaccinating/treating> {K}{l}|les soignants <dépistent/vaccinent/soignent> {K}{l}
{K} have been <vaccinated/infected/quarantined/tested>{l}|{K} ont été <vacciné{e}/contaminé{e}/placé{e} en quarantaine/testé{e}>{l}
{K} fell ill after eating <contaminated chicken/raw oysters/wild mushrooms/spoiled fish>{l}{t}|{K} sont tombé{e} malades après avoir mangé <du poulet contaminé/des huîtres crues/des champignons sauvages/du poisson avarié>{l}{t}
{O} urged people to get vaccinated against {infection}{t}|{O} a exhorté la population à se faire vacciner contre {infection}{t}
{O} warned{t} that hospitals could soon be overwhelmed|{O} a averti{t} que les hôpitaux pourraient bientôt être débordés
patients wait an average of {n} months for <an operation/an appointment/a diagnosis>{l}|les patients attendent en moyenne {n} mois avant d'obtenir <une opération/un rendez-vous/un diagnostic>{l}
<antibiotics/vaccines/masks/sleeping pills> do not protect against {disease}|les <antibiotiques/vaccins/masques/somnifères> ne protègent pas contre {disease}
{drug} works by <blocking the virus/strengthening the immune system/reducing inflammation/killing bacteria>|{drug} agit en <bloquant le virus/renforçant le système immunitaire/réduisant l'inflammation/tuant les bactéries>
{drug} reduces the risk of death by {pct}|{drug} réduit le risque de décès de {pct}
{drug} costs €{num} per patient|{drug} coûte {num} euros par patient
{drug} can be bought without a prescription in {C}|{drug} peut être acheté{e} sans ordonnance {in.C}
{patient} will be the first to receive {drug} {F}|{patient} recevront {drug} en premier {F}
{num} doses of the vaccine were delivered to {C}{t}|{num} doses de vaccin ont été livrées {in.C}{t}
the second phase of the clinical trial will begin in {city} {F}|la deuxième phase de l'essai clinique commencera {au.city} {F}
the virus was first identified in {C} in {year}|le virus a été identifié pour la première fois {in.C} en {year}
the virus mainly attacks the <lungs/liver/brain/intestines>|le virus s'attaque principalement <aux poumons/au foie/au cerveau/aux intestins>
a new variant of {infection} has been detected in {C}|un nouveau variant {some.infection} a été détecté {in.C}
genes play an important role in {disease}|les gènes jouent un rôle important dans {disease}
children born to mothers with {disease} are often underweight|les enfants nés de mères atteintes {ill.disease} ont souvent un poids insuffisant
researchers compared {num} patients with {disease} with a group of healthy volunteers|les chercheurs ont comparé {num} patients atteints {ill.disease} à un groupe de volontaires en bonne santé
the results, published {T}, could lead to new treatments for {disease}|les résultats, publiés {T}, pourraient déboucher sur de nouveaux traitements contre {disease}
the death rate from {disease} has <doubled/halved/remained stable> since {year}|le taux de mortalité lié {au.disease} <a doublé/a diminué de moitié/est resté stable> depuis {year}
the clinic was closed{t} after {n} patients died|la clinique a été fermée{t} après la mort de {n} patients
{P} donated a kidney to {his} <brother/neighbour/colleague>{t}|{P} {a} donné un rein à {son} <frère/voisin/collègue>{t}
{P} {has} been in quarantine since {day}|{P} {est} en quarantaine depuis {day}
{P}, who had {disease}, waited {n} hours for an ambulance{t}|{P}, atteint{e} {ill.disease}, {a} attendu une ambulance pendant {n} heures{t}
nurses and <doctors/midwives/paramedics> are demanding better working conditions{l}|les infirmières et les <médecins/sages-femmes/ambulanciers> réclament de meilleures conditions de travail{l}
sales of <masks/thermometers/painkillers/hand sanitiser> have risen by {pct} since the start of the epidemic|les ventes de <masques/thermomètres/antidouleurs/gel hydroalcoolique> ont augmenté de {pct} depuis le début de l'épidémie
borders will remain closed {F} in order to contain {infection}|les frontières resteront fermées {F} afin d'endiguer {infection}
travellers returning from {C} must take a test before departure|les voyageurs de retour {of.C} doivent effectuer un test avant leur départ""",
    "longer": """police have been looking for {P} for {n} days, but have so far found nothing|la police recherche {P} depuis {n} jours, mais n'a jusqu'à présent rien trouvé
it is not the first time that {P} {has} been in trouble with the law|ce n'est pas la première fois que {P} {a} des ennuis avec la justice
{P}, who used to work as a security guard{l}, {was} forced to sell {his} house after losing {his} job|{P}, qui travaill{ait} auparavant comme agent de sécurité{l}, {a} été contraint{e} de vendre {sa} maison après avoir perdu {son} emploi
{P} told the court that {he} had acted alone and that nobody else was involved|{P} {a} déclaré au tribunal qu'{il} {avait} agi seul{e} et que personne d'autre n'était impliqué
the couple, who have {n} children, had only been living in {city} for a few months|le couple, qui a {n} enfants, ne vivait {au.city} que depuis quelques mois
a spokeswoman for {org} declined to say whether anyone had been fired|une porte-parole {de.org} a refusé de dire si quelqu'un avait été licencié
the attack left {n} people dead and {ten} others injured, including a {kid}-year-old boy|l'attaque a fait {n} morts et {ten} blessés, dont un garçon de {kid} ans
the girl, aged {kid}, was on her way to school when she was hit by a van{l}|la fillette, âgée de {kid} ans, se rendait à l'école lorsqu'elle a été percutée par une camionnette{l}
instead of <going home/calling the police/waiting for help>, {P} decided to <follow the thief/drive through the night/climb over the fence>|au lieu <de rentrer à la maison/d'appeler la police/d'attendre les secours>, {P} {a} décidé de <suivre le voleur/rouler toute la nuit/escalader la clôture>
not only did {org} ignore the warnings, but it also tried to hide the evidence|non seulement {org} a ignoré les avertissements, mais {il} a aussi tenté de dissimuler les preuves
{org} has been trying for {n} years to <attract tourists/reduce its debts/recruit more women>, without much success|{org} essaie depuis {n} ans <d'attirer des touristes/de réduire ses dettes/de recruter davantage de femmes>, sans grand succès
{org} is unlikely to reach its goal before the end of the decade, even if the economy recovers|il est peu probable que {org} atteigne son objectif avant la fin de la décennie, même si l'économie se redresse
{org} is about to <move to/open an office in> {city}, where rents are much lower|{org} est sur le point <de s'installer/d'ouvrir un bureau> {au.city}, où les loyers sont bien plus bas
{org} failed to <meet the deadline/pay its suppliers/protect its employees> despite repeated warnings|{org} n'a pas <respecté le délai/payé ses fournisseurs/protégé ses employés> malgré des avertissements répétés
the more <expensive/crowded/polluted> the city becomes, the more people move to the countryside|plus la ville devient <chère/surpeuplée/polluée>, plus les gens s'installent à la campagne
it remains to be seen whether {C} will be able to pay back its debts|reste à savoir si {C} {sera} en mesure de rembourser {ses} dettes
by the time the ambulance arrived, {P} had already stopped breathing|lorsque l'ambulance est arrivée, {P} {avait} déjà cessé de respirer
more than half of those surveyed think that {org} is doing a <good/poor> job|plus de la moitié des personnes interrogées estiment que {org} fait du <bon/mauvais> travail
{n} in {ten} drivers admit that they have used their phone while driving|{n} conducteurs sur {ten} reconnaissent avoir utilisé leur téléphone au volant
the {teen}-year-old, who cannot be named for legal reasons, was arrested at his parents' home|l'adolescent de {teen} ans, dont le nom ne peut être divulgué pour des raisons juridiques, a été arrêté au domicile de ses parents
the {nat} millionaire, who made his fortune in <property/shipping/fashion/online gambling>, owns {n} houses in {C}|le millionnaire {m.nat}, qui a fait fortune dans <l'immobilier/le transport maritime/la mode/les jeux d'argent en ligne>, possède {n} maisons {in.C}
the {nat}-born <writer/scientist/chef/designer> moved to {city} at the age of {ten}|<l'écrivain/le scientifique/le chef/le styliste> d'origine {f.nat} s'est installé {au.city} à l'âge de {ten} ans
the long-awaited report on {issue} was made public{t}|le rapport tant attendu sur {issue} a été rendu public{t}
a once popular seaside resort{l} has become a ghost town since {crisis}|une station balnéaire autrefois prisée{l} est devenue une ville fantôme depuis {crisis}
the country's largest <airport/hospital/prison/power plant> is to be renovated at a cost of {money}|<le plus grand aéroport/le plus grand hôpital/la plus grande prison/la plus grande centrale électrique> du pays va faire l'objet de travaux d'un coût de {money}
what began as a peaceful demonstration in {city} ended in violence{t}|ce qui avait commencé comme une manifestation pacifique {au.city} s'est terminé dans la violence{t}
unless an agreement is reached {F}, {num} workers could lose their jobs|à moins qu'un accord ne soit trouvé {F}, {num} travailleurs pourraient perdre leur emploi
since {month}, {firm} has been losing about {cash} a week|depuis {month}, {firm} perd environ {cash} par semaine
having <lost/won> the first leg, the {nat} club only needed a draw to <qualify/stay in the top division>|après avoir <perdu/gagné> le match aller, le club {m.nat} n'avait besoin que d'un match nul pour <se qualifier/rester en première division>
the twins, now aged {ten}, were separated at birth and met again in {city}{t}|les jumeaux, aujourd'hui âgés de {ten} ans, avaient été séparés à la naissance et se sont retrouvés {au.city}{t}
people living near the <airport/factory/motorway/landfill site> have been complaining about the <noise/smell/smoke> for years|les riverains <de l'aéroport/de l'usine/de l'autoroute/de la décharge> se plaignent <du bruit/de l'odeur/de la fumée> depuis des années
the firm's shares have lost nearly a third of their value since {O} took over|l'action de la société a perdu près d'un tiers de sa valeur depuis l'arrivée {de.O} à sa tête
residents were told to stay indoors and keep their windows closed because of <toxic smoke/a gas leak/the heat>|les habitants ont reçu pour consigne de rester chez eux et de garder leurs fenêtres fermées en raison <de fumées toxiques/d'une fuite de gaz/de la chaleur>
{O} said it was too early to say what had caused {crash}|{O} a déclaré qu'il était trop tôt pour dire ce qui avait provoqué {crash}
{O} insisted that the decision had nothing to do with {crisis}|{O} a affirmé que cette décision n'avait rien à voir avec {crisis}
{O} thanked the <volunteers/firefighters/doctors/voters> for their courage and called for donations|{O} a remercié les <bénévoles/pompiers/médecins/électeurs> pour leur courage et a lancé un appel aux dons
the majority of the {num} people who applied for the job were under 30|la majorité des {num} personnes ayant postulé à cet emploi avaient moins de 30 ans
one in {n} children in {C} goes to bed hungry|un enfant sur {n} se couche le ventre vide {in.C}""",
}
